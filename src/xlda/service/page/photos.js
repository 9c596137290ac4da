const MOST = 1600;  // pixels of the long side of a photo that is sent
const [WIDTH, HEIGHT] = [24, 18];  // of what is compared

// Upright, at most 1600 pixels; a file that is small enough is sent as it is.
export async function prepared(file, most = MOST) {
	const image = new Image();
	image.src = URL.createObjectURL(file);
	await new Promise((done) => (image.onload = image.onerror = done));
	URL.revokeObjectURL(image.src);
	const side = Math.max(image.width, image.height);
	const isFit = side <= most && file.size < 2e6 && /jpeg|png|webp/.test(file.type);
	return isFit || !side ? file : jpegOf(await createImageBitmap(file), most);
}

export function jpegOf(source, most) {
	const [width, height] = [source.videoWidth ?? source.width, source.videoHeight ?? source.height];
	const share = Math.min(1, most / Math.max(width, height));
	const canvas = drawn(source, Math.round(width * share), Math.round(height * share));
	return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.87));
}

function drawn(source, width, height) {
	const canvas = Object.assign(document.createElement("canvas"), { width, height });
	canvas.getContext("2d").drawImage(source, 0, 0, width, height);
	return canvas;
}

export function greyOf(source) {
	const { data } = drawn(source, WIDTH, HEIGHT).getContext("2d").getImageData(0, 0, WIDTH, HEIGHT);
	const grey = (_, at) => (data[4 * at] + 2 * data[4 * at + 1] + data[4 * at + 2]) / 4;
	return Array.from({ length: WIDTH * HEIGHT }, grey);
}

export function difference(one, other) {
	const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
	const shift = mean(one) - mean(other);
	return mean(one.map((value, at) => Math.abs(value - other[at] - shift)));
}
