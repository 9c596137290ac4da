import { svg } from "./dom.js";
import { percent } from "./texts.js";

const [WIDTH, HEIGHT, LEFT, EDGE] = [480, 220, 48, 12];

// Points are `{accuracy, low, high}`, the oldest first.
export function chart(given, label) {
	const points = given.length > 1 ? given : [...given, ...given];
	const lowest = Math.floor(Math.min(...points.map(({ low }) => low)) * 10) / 10;
	const x = (at) => LEFT + (at / (points.length - 1)) * (WIDTH - LEFT - EDGE);
	const y = (share) => EDGE + ((1 - share) / (1 - lowest || 1)) * (HEIGHT - 2 * EDGE);
	const line = (name) => points.map((point, at) => `${x(at)},${y(point[name])}`);
	const grid = [lowest, (1 + lowest) / 2, 1].flatMap((share) => [
		svg("path", { class: "grid", d: `M${LEFT} ${y(share)}H${WIDTH - EDGE}` }),
		svg("text", { x: LEFT - 8, y: y(share) + 5, "text-anchor": "end" }, percent(share)),
	]);
	const about = { class: "chart", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": label };
	return svg("svg", about, ...grid,
		svg("polygon", { class: "band", points: [...line("high"), ...line("low").reverse()] }),
		svg("polyline", { class: "line", points: line("accuracy") }),
		svg("circle", { class: "dot", cx: WIDTH - EDGE, cy: y(points.at(-1).accuracy), r: 6 }));
}
