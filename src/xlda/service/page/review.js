// Review: what is unsure, unknown or contradicts what was taught, alike things together, settled in one act.
import { get } from "./api.js";
import { askName } from "./dialogs.js";
import { icon, made, photoOf } from "./dom.js";
import { define, Screen } from "./screen.js";
import { store } from "./store.js";
import { t } from "./texts.js";
import { Tiles } from "./tiles.js";
import { act } from "./undo.js";

const [TILE, HEAD, TITLE] = [112, 60, 56];  // pixels
const sizeOf = (groups) => groups.reduce((sum, { items }) => sum + items.length, 0);
const keyOf = (group) => JSON.stringify(group);

/** What there is to look at; the store counts what is not solved. */
export async function readReview() {
	const { groups } = await get("v1/review");
	store.set({ toReview: sizeOf(groups.filter(({ solved }) => !solved)) });
	return groups;
}

class Review extends Screen {
	#groups = [];

	begin() {
		this.tiles = new Tiles(this, { size: TILE, changed: () => this.#showBar() });
		super.begin();
	}

	async load() {
		this.#show(await readReview());
	}

	#show(groups) {
		this.#groups = groups;
		const n = sizeOf(groups);
		this.put({ says: n && t("review.lead", { n }), empty: !n });
		const firstSolved = groups.find(({ solved }) => solved);
		this.tiles.sections = groups.map((group) => ({
			key: keyOf(group),
			head: () => this.#head(group, group === firstSolved),
			height: HEAD + (group === firstSolved ? TITLE : 0),
			items: group.items.map((item) => this.#tile(item, group)),
		}));
	}

	#tile({ id, photo, sample_id: sample, taught_label: taught }, { kind, label }) {
		const hasBadge = kind === "contradicts";
		const alt = hasBadge ? t("review.taught", { taught }) : label ? t("review.perhaps", { label }) : t("label.unknown");
		return { id, alt, hasBadge, src: sample ? photoOf("samples", sample) : photo && photoOf("review", id) };
	}

	#head({ kind, label, items }, solved) {
		const key = kind === "contradicts" ? "review.contradicts" : label ? "review.perhaps" : "review.unknown";
		const text = t(key, { label, taught: items[0].taught_label });
		return made("group", { text, solved, mark: icon(kind), count: t("photos", { n: items.length }) });
	}

	/** What an act is about: what is selected, else the group in which the keyboard is. */
	#chosen() {
		const { selected, current } = this.tiles;
		const [id = current] = selected;
		const group = this.#groups.find(({ items }) => items.some((item) => item.id === id));
		return { group, ids: selected.size ? [...selected] : group?.items.map((item) => item.id) };
	}

	#showBar() {
		const { group, ids } = this.#chosen();
		const { bar, host } = this.$;
		bar.hidden = !group;
		host.querySelector(".current")?.classList.remove("current");
		if (!group) return;
		const isSelection = this.tiles.selected.size > 0;
		if (!isSelection) this.tiles.list.node(keyOf(group))?.classList.add("current");
		bar.dataset.kind = group.kind;
		bar.classList.toggle("has-label", Boolean(group.label));
		const chosen = t(isSelection ? "review.selected" : "review.group", { n: ids.length });
		this.put({ chosen, clear: isSelection, yes: t("review.yes", group) });
	}

	clear() {
		this.tiles.select([]);
	}

	/** Settle what is chosen; what comes after it is next, so that key after key does it. */
	async #settle(key, said, label) {
		const { ids } = this.#chosen();
		const isLeft = ({ id }) => !ids.includes(id);
		const order = this.#groups.flatMap(({ items }) => items);
		const next = order.slice(order.findIndex(({ id }) => id === ids.at(-1))).find(isLeft) ?? order.find(isLeft);
		await act(t(key, { n: ids.length, label }), "POST", "v1/review:apply", { ids, ...said });
		const left = this.#groups.map((group) => ({ ...group, items: group.items.filter(isLeft) }));
		this.#show(left.filter(({ items }) => items.length));
		this.clear();
		this.tiles.goTo(next?.id);
	}

	yes() {
		const { label } = this.#chosen().group;
		return this.#settle("did.taught", { label }, label);
	}

	async name() {
		const label = await askName(t("review.name.title", { n: this.#chosen().ids.length }), t("look.no.ok"));
		if (label) await this.#settle("did.taught", { label }, label);
	}

	notThis() {
		const { label, class_id } = this.#chosen().group;
		return this.#settle("did.not", { not: class_id }, label);
	}

	dismiss() {
		return this.#settle("did.dismissed", { dismiss: true });
	}

	ignore() {
		return this.#settle("did.ignored", { ignore: true });
	}

	keep() {
		return this.#settle("did.kept", { keep: true });
	}
}

define("review", Review);
