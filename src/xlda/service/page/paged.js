// What the service gives page by page: as much as was looked at, and more when its end comes into sight.

export class Paged {
	#items = [];
	#next = "";
	#turn = 0;

	/** `read(after)` gives `{items, next}`; `show(items, page)` gets all that was read, and the first page. */
	constructor(read, show) {
		Object.assign(this, { read, show });
	}

	/** Read anew from the start, as far as it was read. */
	async load(least = this.#items.length) {
		const turn = ++this.#turn;
		const first = await this.read();
		let { items, next } = first;
		while (next && items.length < least) {
			const page = await this.read(next);
			[items, next] = [[...items, ...page.items], page.next];
		}
		if (turn !== this.#turn) return;
		[this.#items, this.#next] = [items, next];
		this.show(items, first);
	}

	more = () => this.#next && this.load(this.#items.length + 1);
}
