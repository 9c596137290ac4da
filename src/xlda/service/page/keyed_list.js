// A list of any length of which only what can be seen is in the document. Elements stay with their keys.

const AROUND = 600;  // pixels above and below what can be seen
const [ABOVE, BELOW] = [80, 200];  // pixels at the edges where other things cover what is revealed

export class KeyedList {
	#rows = [];
	#tops = [0];
	#nodes = new Map();
	#frame = 0;

	/** Rows have a `key` and a `height`; `create(row)` makes an element, `nearEnd()` is told of the end. */
	constructor(host, { create, nearEnd }) {
		Object.assign(this, { host, create, nearEnd });
		host.classList.add("keyed-list");
		this.draw = () => (this.#frame ||= requestAnimationFrame(() => this.#draw()));
		addEventListener("scroll", this.draw, { passive: true });
		addEventListener("resize", this.draw);
	}

	end() {
		cancelAnimationFrame(this.#frame);
		removeEventListener("scroll", this.draw);
		removeEventListener("resize", this.draw);
	}

	get rows() {
		return this.#rows;
	}

	set rows(rows) {
		this.#rows = rows;
		this.#tops = [0];
		for (const { height } of rows) this.#tops.push(this.#tops.at(-1) + height);
		this.host.style.height = `${this.#tops.at(-1)}px`;
		this.#draw();
	}

	/** The element of a row, where it is in the document. */
	node(key) {
		return this.#nodes.get(key);
	}

	/** Bring a row into sight; gives its element. */
	reveal(key) {
		const at = this.#rows.findIndex((row) => row.key === key);
		const start = this.host.getBoundingClientRect().top;
		const above = start + this.#tops[at] - ABOVE;
		const below = start + this.#tops[at + 1] + BELOW - innerHeight;
		if (above < 0) scrollBy(0, above);
		else if (below > 0) scrollBy(0, Math.min(above, below));
		this.#draw();
		return this.node(key);
	}

	/** The first row that ends below a height. */
	#at(height) {
		let [low, high] = [0, this.#rows.length];
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.#tops[middle + 1] > height) high = middle;
			else low = middle + 1;
		}
		return low;
	}

	#draw() {
		this.#frame = 0;
		const seen = -this.host.getBoundingClientRect().top;
		const [first, last] = [this.#at(seen - AROUND), this.#at(seen + innerHeight + AROUND)];
		const shown = new Map();
		this.#rows.forEach(({ key }, at) => {
			const hasFocus = this.node(key)?.contains(document.activeElement);  // it stays, wherever it is
			if ((at >= first && at <= last) || hasFocus) shown.set(key, at);
		});
		for (const [key, node] of this.#nodes) {
			if (shown.has(key)) continue;
			node.remove();
			this.#nodes.delete(key);
		}
		let next = this.host.firstChild;
		for (const [key, at] of shown) {
			const node = this.node(key) ?? this.create(this.#rows[at]);
			this.#nodes.set(key, node);
			node.style.top = `${this.#tops[at]}px`;
			node.style.height = `${this.#tops[at + 1] - this.#tops[at]}px`;
			if (node === next) next = next.nextSibling;
			else this.host.insertBefore(node, next);
		}
		if (last >= this.#rows.length - 1) this.nearEnd?.();
	}
}
