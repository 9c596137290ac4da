// Classes: all of them, found by name.
import { get } from "./api.js";
import { made, photoOf } from "./dom.js";
import { Paged } from "./paged.js";
import { link } from "./router.js";
import { define, Screen } from "./screen.js";
import { store } from "./store.js";
import { t } from "./texts.js";
import { Tiles } from "./tiles.js";

const [CARD, TEXT] = [150, 58];  // pixels of a card: its width, and what stands below its picture

/** A class as a picture with its name. */
export function card({ id, label, count }) {
	const isCounted = count !== undefined;
	const photo = count !== 0 && photoOf("classes", id);
	const node = made("card", { photo, name: label, count: isCounted && t("photos", { n: count }) });
	node.href = link("class", id);
	return node;
}

class Classes extends Screen {
	begin() {
		const { search } = this.$;
		const read = async (after) => {
			const { classes, next } = await get("v1/classes", { q: search.value.trim(), limit: 200, after });
			return { items: classes, next };
		};
		const paged = new Paged(read, (classes) => this.#show(classes));
		this.tiles = new Tiles(this, { size: CARD, text: TEXT, make: card, nearEnd: paged.more });
		this.load = () => paged.load();
		search.oninput = () => paged.load(0);
		super.begin();
	}

	#show(items) {
		const isSearch = Boolean(this.$.search.value.trim());
		const n = isSearch ? items.length : Math.max(items.length, store.get("model").classes);
		const isEmpty = !n && !isSearch;
		this.put({ says: isEmpty ? t("classes.empty") : t("classes.lead", { n }), first: isEmpty && "#/teach" });
		this.tiles.sections = [{ items }];
	}
}

define("classes", Classes);
