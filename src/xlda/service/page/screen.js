import { fill, put } from "./dom.js";
import { store } from "./store.js";

export class Screen extends HTMLElement {
	ends = [];

	connectedCallback() {
		fill(this, this.localName.slice(5));
		this.onclick = ({ target }) => {
			const { dataset = {} } = target.closest("[data-act]") ?? {};
			this[dataset.act]?.(dataset);
		};
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
			this.timer = setTimeout(() => this.load(), wait);
			wait = 300;
		}));
	}

	clear() {
		this.tiles.select([]);
	}

	put(values) {
		put(this, values);
	}
}

export const define = (name, screen) => customElements.define(`xlda-${name}`, screen);
