const MOST = 1600;  // pixels of the long side
const HEADER = 2 ** 18;  // bytes
const [WIDTH, HEIGHT] = [24, 18];  // of what is compared

// Upright, at most 1600 pixels; a small file is sent as it is.
export async function prepared(file, most = MOST) {
	const isFit = (side) => side && side <= most && file.size < 2e6 && /jpeg|png|webp/.test(file.type);
	const side = await sideOf(file).catch(() => 0);
	if (isFit(side)) return file;
	const canScale = side && self.ImageDecoder;
	const source = await (canScale ? opened(file, most) : createImageBitmap(file)).catch(() => null);
	return !source || isFit(Math.max(source.width, source.height)) ? file : jpegOf(source, most);
}

// The long side of a JPEG file, by its header: nothing is decoded.
async function sideOf(file) {
	const bytes = new DataView(await file.slice(0, HEADER).arrayBuffer());
	for (let at = 2; ; at += 2 + bytes.getUint16(at + 2)) {
		const isFrame = /^ffc[^48c]$/.test(bytes.getUint16(at).toString(16));
		if (isFrame) return Math.max(bytes.getUint16(at + 5), bytes.getUint16(at + 7));
	}
}

// About as large as is needed, in half the time.
async function opened(file, most) {
	const wish = { type: "image/jpeg", desiredWidth: most, desiredHeight: most };
	const data = await file.arrayBuffer();
	return (await new ImageDecoder({ data, ...wish }).decode()).image;
}

export function jpegOf(source, most) {
	const of = (name) => source[`video${name}`] ?? source[`display${name}`] ?? source[name.toLowerCase()];
	const [width, height] = [of("Width"), of("Height")];
	const share = Math.min(1, most / Math.max(width, height));
	const canvas = drawn(source, Math.round(width * share), Math.round(height * share));
	source.close?.();
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
