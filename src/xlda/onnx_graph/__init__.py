"""A classifier as nodes of an ONNX graph; needs the extra `onnx`."""
