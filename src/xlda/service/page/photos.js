// Photos as files and frames: scaled before they are sent, and compared with each other.

const MOST = 1600;  // pixels of the long side of a photo that is sent
const [WIDTH, HEIGHT] = [24, 18];  // of what is compared

/** A file as it is sent: upright, at most 1600 pixels; one that is small enough is sent as it is. */
export async function prepared(file, most = MOST) {
	const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" }).catch(() => null);
	const isFine = /jpeg|png|webp/.test(file.type) && file.size < 2e6;
	if (!bitmap || (isFine && Math.max(bitmap.width, bitmap.height) <= most)) return file;  // or the service says why not
	return jpegOf(bitmap, bitmap.width, bitmap.height, most);
}

/** What a video or a picture shows, as a JPEG file. */
export function jpegOf(source, width, height, most) {
	const share = Math.min(1, most / Math.max(width, height));
	const canvas = drawn(source, Math.round(width * share), Math.round(height * share));
	return new Promise((resolve) => canvas.toBlob(resolve, "image/jpeg", 0.87));
}

function drawn(source, width, height) {
	const canvas = Object.assign(document.createElement("canvas"), { width, height });
	canvas.getContext("2d").drawImage(source, 0, 0, width, height);
	return canvas;
}

/** A tiny grey copy of a frame, to compare with. */
export function greyOf(source) {
	const { data } = drawn(source, WIDTH, HEIGHT).getContext("2d").getImageData(0, 0, WIDTH, HEIGHT);
	return Array.from({ length: WIDTH * HEIGHT }, (_, at) => (data[4 * at] + 2 * data[4 * at + 1] + data[4 * at + 2]) / 4);
}

/** The mean difference of two grey copies, in steps of 255, whatever the light as a whole does. */
export function difference(one, other) {
	const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
	const shift = mean(one) - mean(other);
	return mean(one.map((value, at) => Math.abs(value - other[at] - shift)));
}
