import { made } from "./dom.js";
import { keyedList } from "./keyed_list.js";

const GAP = 8;
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };

function tile({ src, alt, hasBadge }) {
	const node = made("tile");
	node.ariaLabel = node.title = alt;
	node.classList.toggle("badge", hasBadge);
	if (src) node.$.photo.dataset.src = src;
	return node;
}

// Sections are `{key, head, height, items}`; `make(item)` gives an element.
// `size` is about its width, `text` the height below.
export function tilesOf(screen, { size, text = 0, make = tile, changed, nearEnd }) {
	const { host } = screen.$;
	const list = keyedList(host, { create: (row) => row.head?.() ?? rowOf(row), nearEnd });
	const places = new Map();
	let [sections, rows, order, anchor, width] = [[], [], [], null, 0];
	const tiles = {
		list,
		selected: new Set(),
		current: null,  // where the keyboard is: an id

		show(given) {
			sections = given;
			order = sections.flatMap(({ items }) => items.map(({ id }) => id));
			layOut();
		},

		select(ids) {
			tiles.selected = new Set(ids);
			paint();
		},

		goTo(id) {
			if (!places.has(id)) return;
			tiles.current = id;
			const row = list.reveal(places.get(id).key);
			paint();
			row.querySelector("[tabindex='0']").focus({ preventScroll: true });
		},
	};

	function layOut() {
		width = host.clientWidth;
		const n = Math.max(2, Math.floor((width + GAP) / (size + GAP)));
		const height = (width - GAP * (n - 1)) / n + GAP + text;
		rows = [];
		places.clear();
		for (const { items, ...section } of sections) {
			if (section.head) rows.push(section);
			for (let at = 0; at < items.length; at += n) {
				const some = items.slice(at, at + n);
				const key = JSON.stringify(some);  // made anew where one changed
				some.forEach(({ id }, column) => places.set(id, { key, at: rows.length, column }));
				rows.push({ key, height, n, items: some });
			}
		}
		if (!places.has(tiles.current)) tiles.current = order[0];
		list.show(rows);
		tiles.select([...tiles.selected].filter((id) => places.has(id)));
	}

	function rowOf({ n, items }) {
		const node = document.createElement("div");
		node.className = "tile-row";
		node.style.gridTemplateColumns = `repeat(${n}, 1fr)`;
		for (const item of items) {
			const child = make(item);
			child.dataset.id = item.id;
			paintOne(child);
			node.append(child);
		}
		return node;
	}

	function paint() {
		host.querySelectorAll("[data-id]").forEach(paintOne);
		changed?.(tiles.selected.size);
	}

	function paintOne(node) {
		const { id } = node.dataset;
		if (node.matches(".tile")) node.ariaPressed = tiles.selected.has(id);
		node.tabIndex = id === tiles.current ? 0 : -1;
	}

	function range(id) {
		const ends = [anchor, id].map((one) => order.indexOf(one));
		tiles.selected = new Set(order.slice(Math.min(...ends), Math.max(...ends) + 1));
	}

	function above(id, step) {
		const { at, column } = places.get(id);
		const row = rows[at + step]?.head ? rows[at + 2 * step] : rows[at + step];
		return row?.items[Math.min(column, row.items.length - 1)].id;
	}

	host.onclick = ({ target, shiftKey }) => {
		const id = target.closest(".tile")?.dataset.id;
		if (!id) return;
		if (shiftKey && anchor) range(id);
		else {
			anchor = id;
			if (!tiles.selected.delete(id)) tiles.selected.add(id);
		}
		tiles.current = id;
		paint();
	};

	host.onkeydown = (event) => {
		const { key, shiftKey, target } = event;
		const { id } = target.dataset;
		const step = STEPS[key];
		if (key === "Escape") tiles.select([]);
		if (!step || !id) return;
		event.preventDefault();
		const next = /Left|Right/.test(key) ? order[order.indexOf(id) + step] : above(id, step);
		if (next && shiftKey && target.matches(".tile")) {
			if (!tiles.selected.size) anchor = id;
			range(next);
		}
		tiles.goTo(next);
	};

	const watcher = new ResizeObserver(() => host.clientWidth !== width && layOut());
	watcher.observe(host);
	screen.ends.push(list.end, () => watcher.disconnect());
	return tiles;
}
