import { define, get, link, made, photoOf, Screen, store, t } from "./kit.js";
import { paged } from "./paged.js";
import { tilesOf } from "./tiles.js";

const [CARD, TEXT] = [150, 58];  // pixels: width, and text below

export function card({ id, label, count }) {
	const photo = count !== 0 && photoOf("classes", id);
	const node = made("card", { photo, name: label, count: count >= 0 && t("photos", { n: count }) });
	node.href = link("class", id);
	return node;
}

define("classes", class extends Screen {
	begin() {
		const { search } = this.$;
		const read = (after) => get("v1/classes", { q: search.value.trim(), limit: 200, after });
		const pages = paged(read, "classes", (classes) => this.#show(classes));
		this.tiles = tilesOf(this, { size: CARD, text: TEXT, make: card, nearEnd: pages.more });
		this.load = () => pages.load();
		search.oninput = () => pages.load(0);
		super.begin();
	}

	#show(items) {
		const q = this.$.search.value.trim();
		const n = q ? items.length : Math.max(items.length, store.get("model").classes);
		this.put({ says: t("classes.lead", { n }) });
		this.tiles.show([{ items }]);
	}
});
