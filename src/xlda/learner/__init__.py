"""Learning and predicting, without scikit-learn."""
