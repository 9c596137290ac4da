import { act, askName, define, get, icon, made, Screen, store, t, thumbOf } from "./kit.js";
import { tilesOf } from "./tiles.js";

const [TILE, HEAD, TITLE] = [112, 60, 56];
const sizeOf = (groups) => groups.flatMap(({ items }) => items).length;

export async function readReview() {
	const { groups } = await get("v1/review");
	store.set({ toReview: sizeOf(groups.filter(({ solved }) => !solved)) });
	return groups;
}

define("review", class extends Screen {
	#groups = [];

	begin() {
		this.tiles = tilesOf(this, { size: TILE, changed: () => this.#showBar() });
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
		this.tiles.show(groups.map((group) => this.#section(group, group === firstSolved)));
	}

	#section(group, solved) {
		const { kind, label, items } = group;
		const isTaught = kind === "contradicts";
		const key = isTaught ? "review.contradicts" : label ? "review.perhaps" : "review.unknown";
		const count = t("photos", { n: items.length });
		const alt = t(key, { label, taught: items[0].taught_label });
		return {
			key: JSON.stringify(group),
			head: () => made("group", { text: alt, solved, mark: icon(kind), count }),
			height: HEAD + (solved ? TITLE : 0),
			items: items.map(({ id, photo }) =>
				({ id, alt, hasBadge: isTaught, src: photo && thumbOf("review", id) })),
		};
	}

	// What is selected, else that of the keyboard.
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
		if (!isSelection) this.tiles.list.node(JSON.stringify(group))?.classList.add("current");
		bar.dataset.kind = group.kind;
		bar.classList.toggle("has-label", Boolean(group.label));
		const chosen = t(isSelection ? "selected" : "review.group", { n: ids.length });
		this.put({ chosen, clear: isSelection, yes: t("review.yes", group) });
	}

	// What comes after is next, so that key after key does it.
	async settle({ said, did }, label) {
		const { ids, group } = this.#chosen();
		const values = { label: label ?? group.label, not: group.class_id };
		const isLeft = ({ id }) => !ids.includes(id);
		const order = this.#groups.flatMap(({ items }) => items);
		const next = order.slice(order.findIndex(({ id }) => id === ids.at(-1))).find(isLeft) ?? order.find(isLeft);
		const text = t(`did.${did}`, { n: ids.length, ...values });
		await act(text, "POST", "v1/review:apply", { ids, [said]: values[said] ?? true });
		const left = this.#groups.map((one) => ({ ...one, items: one.items.filter(isLeft) }));
		this.#show(left.filter(({ items }) => items.length));
		this.clear();
		this.tiles.goTo(next?.id);
	}

	async name(data) {
		const label = await askName(t("review.name.title", { n: this.#chosen().ids.length }), t("look.no.ok"));
		if (label) await this.settle(data, label);
	}
});
