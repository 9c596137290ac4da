const AROUND = 400;  // pixels
const FAST = 2.5;  // pixels a millisecond

// Only what can be seen is in the document. Rows have a `key` and a `height`. Pictures have a `data-src`,
// loaded once it does not fly past.
export function keyedList(host, { create, nearEnd }) {
	const nodes = new Map();
	let [rows, frame, timer, lastSeen, lastAt, wanted] = [[], 0, 0, 0, 0];

	function load(seen, at = performance.now()) {
		const isFast = Math.abs(seen - lastSeen) > FAST * (at - lastAt);
		[lastSeen, lastAt] = [seen, at];
		clearTimeout(timer);
		if (isFast) timer = setTimeout(draw, 100);
		else for (const image of host.querySelectorAll("[data-src]")) {
			image.src = image.dataset.src;
			delete image.dataset.src;
		}
	}

	function draw() {
		frame = 0;
		const seen = -host.getBoundingClientRect().top;
		const end = seen + innerHeight + AROUND;
		const shown = rows.filter(({ key, top, bottom }) =>
			(bottom > seen - AROUND && top < end) || key === wanted
			|| nodes.get(key)?.contains(document.activeElement));
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
		load(seen);
		if (!(rows.at(-1)?.top > end)) nearEnd?.();
	}

	const later = () => (frame ||= requestAnimationFrame(draw));
	host.classList.add("keyed-list");
	const way = new AbortController();
	const { signal } = way;
	for (const kind of ["scroll", "resize"]) addEventListener(kind, later, { signal });

	return {
		node: (key) => nodes.get(key),

		show(given) {
			let bottom = 0;
			rows = given.map((row) => ({ ...row, top: bottom, bottom: (bottom += row.height) }));
			host.style.height = `${bottom}px`;
			draw();
		},

		reveal(key) {
			wanted = key;
			draw();
			const node = nodes.get(key);
			node.scrollIntoView({ block: "nearest" });
			return node;
		},

		end: () => way.abort(),
	};
}
