import { fill, put } from "./dom.js";
import { noteError } from "./notes.js";
import { store } from "./store.js";

export class Screen extends HTMLElement {
	ends = [];

	connectedCallback() {
		fill(this, this.localName.slice(5));
		this.onclick = ({ target }) => this.run(target.closest("[data-act]")?.dataset);
		this.begin();
	}

	disconnectedCallback() {
		clearTimeout(this.timer);
		for (const end of this.ends.splice(0)) end();
	}

	begin() {
		let wait = 0;
		this.ends.push(store.on("seq", () => {
			clearTimeout(this.timer);
			this.timer = setTimeout(() => this.run({ act: "load" }), wait);
			wait = 300;
		}));
	}

	clear() {
		this.tiles.select([]);
	}

	put(values) {
		put(this, values);
	}

	async run(data) {
		try {
			await this[data?.act]?.(data);
		} catch (error) {
			noteError(error);
		}
	}
}

export const define = (name, screen) => customElements.define(`xlda-${name}`, screen);
