const AROUND = 400;  // pixels above and below what can be seen
const FAST = 2.5;  // pixels a millisecond: nobody could see what is on a picture
const [ABOVE, BELOW] = [80, 200];  // pixels that other things cover

// Only what can be seen is in the document. Rows have a `key` and a `height`; what `create` gives may have
// `settle`, which is called once the list does not fly past.
export function keyedList(host, { create, nearEnd }) {
	const nodes = new Map();
	let [rows, frame, timer, lastSeen, lastAt] = [[], 0, 0, 0, 0];

	function settle(seen, at = performance.now()) {
		const isFast = Math.abs(seen - lastSeen) > FAST * (at - lastAt);
		[lastSeen, lastAt] = [seen, at];
		clearTimeout(timer);
		if (isFast) timer = setTimeout(draw, 100);
		else for (const node of nodes.values()) node.settle?.();
	}

	function draw() {
		frame = 0;
		const seen = -host.getBoundingClientRect().top;
		const end = seen + innerHeight + AROUND;
		const shown = rows.filter(({ key, top, bottom }) =>
			(bottom > seen - AROUND && top < end) || nodes.get(key)?.contains(document.activeElement));
		const keys = new Set(shown.map(({ key }) => key));
		for (const [key, node] of nodes) {
			if (keys.has(key)) continue;
			node.remove();
			nodes.delete(key);
		}
		let next = host.firstChild;
		for (const row of shown) {
			const node = nodes.get(row.key) ?? create(row);
			nodes.set(row.key, node);
			node.style.top = `${row.top}px`;
			node.style.height = `${row.height}px`;
			if (node === next) next = next.nextSibling;
			else host.insertBefore(node, next);
		}
		settle(seen);
		if (!(rows.at(-1)?.top > end)) nearEnd?.();
	}

	const later = () => (frame ||= requestAnimationFrame(draw));
	host.classList.add("keyed-list");
	const way = new AbortController();
	const { signal } = way;
	for (const kind of ["scroll", "resize"]) addEventListener(kind, later, { passive: true, signal });

	return {
		node: (key) => nodes.get(key),

		show(given) {
			let bottom = 0;
			rows = given.map((row) => ({ ...row, top: bottom, bottom: (bottom += row.height) }));
			host.style.height = `${bottom}px`;
			draw();
		},

		reveal(key) {
			const { top, bottom } = rows.find((row) => row.key === key);
			const start = host.getBoundingClientRect().top;
			const above = start + top - ABOVE;
			const below = start + bottom + BELOW - innerHeight;
			if (above < 0) scrollBy(0, above);
			else if (below > 0) scrollBy(0, Math.min(above, below));
			draw();
			return nodes.get(key);
		},

		end: () => way.abort(),
	};
}
