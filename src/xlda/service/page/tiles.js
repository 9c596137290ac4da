// Pictures in rows, of which many can be selected: by click or thumb, with shift, with the arrow keys.
import { made } from "./dom.js";
import { KeyedList } from "./keyed_list.js";

const GAP = 8;
const STEPS = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -1, ArrowDown: 1 };

/** A photo that can be selected. */
function tile({ src, alt, hasBadge }) {
	const node = made("tile", { photo: src, badge: Boolean(hasBadge) });
	node.ariaLabel = node.title = alt;
	return node;
}

/** Sections `{key, head, height, items}`; items have an `id`, and `make(item)` their element. */
export class Tiles {
	selected = new Set();
	current = null;  // where the keyboard is: an id
	#sections = [];
	#order = [];
	#places = new Map();
	#anchor = null;

	/** `size` is about the width of a tile, `text` the height of what stands below its picture. */
	constructor(screen, { size, text = 0, make = tile, changed, nearEnd }) {
		const { host } = screen.$;
		Object.assign(this, { host, size, text, make, changed });
		this.list = new KeyedList(host, { create: (row) => row.head?.() ?? this.#row(row), nearEnd });
		host.onclick = (event) => this.#click(event);
		host.onkeydown = (event) => this.#key(event);
		const watcher = new ResizeObserver(() => host.clientWidth !== this.width && this.#layOut());
		watcher.observe(host);
		screen.ends.push(() => this.list.end(), () => watcher.disconnect());
	}

	set sections(sections) {
		this.#sections = sections;
		this.#order = sections.flatMap(({ items }) => items.map(({ id }) => id));
		this.#layOut();
	}

	select(ids) {
		this.selected = new Set(ids);
		this.#paint();
	}

	goTo(id) {
		if (!this.#places.has(id)) return;
		this.current = id;
		const row = this.list.reveal(this.#places.get(id).key);
		this.#paint();
		row.querySelector("[tabindex='0']").focus({ preventScroll: true });
	}

	#layOut() {
		const width = (this.width = this.host.clientWidth);
		const n = Math.max(2, Math.floor((width + GAP) / (this.size + GAP)));
		const height = (width - GAP * (n - 1)) / n + GAP + this.text;
		const rows = [];
		this.#places.clear();
		for (const { key, head, height: headHeight, items } of this.#sections) {
			if (head) rows.push({ key, head, height: headHeight });
			for (let at = 0; at < items.length; at += n) {
				const some = items.slice(at, at + n);
				const rowKey = JSON.stringify(some);  // an item that changed is made anew
				some.forEach(({ id }, column) => this.#places.set(id, { key: rowKey, at: rows.length, column }));
				rows.push({ key: rowKey, height, n, items: some });
			}
		}
		if (!this.#places.has(this.current)) this.current = this.#order[0];
		this.list.rows = rows;
		this.select([...this.selected].filter((id) => this.#places.has(id)));
	}

	#row({ n, items }) {
		const node = document.createElement("div");
		node.className = "tile-row";
		node.style.gridTemplateColumns = `repeat(${n}, 1fr)`;
		for (const item of items) {
			const child = this.make(item);
			child.dataset.id = item.id;
			this.#paintOne(child);
			node.append(child);
		}
		return node;
	}

	#click({ target, shiftKey }) {
		const id = target.closest(".tile")?.dataset.id;
		if (!id) return;
		if (shiftKey && this.#anchor) this.#range(id);
		else {
			this.#anchor = id;
			if (!this.selected.delete(id)) this.selected.add(id);
		}
		this.current = id;
		this.#paint();
	}

	/** Select all from where the selection began to here. */
	#range(id) {
		const ends = [this.#anchor, id].map((one) => this.#order.indexOf(one));
		this.selected = new Set(this.#order.slice(Math.min(...ends), Math.max(...ends) + 1));
	}

	#key(event) {
		const { key, shiftKey, target } = event;
		const { id } = target.dataset;
		if (key === "Escape") this.select([]);
		if (!STEPS[key] || !id) return;
		event.preventDefault();
		const isAcross = key === "ArrowLeft" || key === "ArrowRight";
		const next = isAcross ? this.#order[this.#order.indexOf(id) + STEPS[key]] : this.#above(id, STEPS[key]);
		if (!next) return;
		if (shiftKey && target.matches(".tile")) {
			if (!this.selected.size) this.#anchor = id;
			this.#range(next);
		}
		this.goTo(next);
	}

	#above(id, step) {
		const { at, column } = this.#places.get(id);
		const { rows } = this.list;
		const row = rows[at + step]?.head ? rows[at + 2 * step] : rows[at + step];
		return row?.items[Math.min(column, row.items.length - 1)].id;
	}

	#paint() {
		for (const node of this.host.querySelectorAll("[data-id]")) this.#paintOne(node);
		this.changed?.();
	}

	#paintOne(node) {
		const { id } = node.dataset;
		if (node.matches(".tile")) node.ariaPressed = this.selected.has(id);
		node.tabIndex = id === this.current ? 0 : -1;
	}
}
