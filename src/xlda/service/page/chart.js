import { made } from "./dom.js";
import { percent } from "./texts.js";

const [WIDTH, HEIGHT, LEFT, TOP] = [420, 196, 48, 12];

// Points are `{accuracy, low, high}`, the oldest first.
export function chart(given, label) {
	const points = given.length > 1 ? given : [...given, ...given];
	const lowest = Math.floor(Math.min(...points.map(({ low }) => low)) * 10) / 10;
	const x = (at) => LEFT + (at / (points.length - 1)) * WIDTH;
	const y = (share) => TOP + ((1 - share) / (1 - lowest || 1)) * HEIGHT;
	const of = (name) => points.map((point, at) => [x(at), y(point[name])]);
	const line = of("accuracy");
	const node = made("chart", {
		band: [of("high"), of("low").reverse()], line, dot: [line.at(-1), line.at(-1)],
		high: percent(1), middle: percent((1 + lowest) / 2), low: percent(lowest),
	});
	node.ariaLabel = label;
	return node;
}
