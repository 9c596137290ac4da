import {
	act, askName, define, get, go, icon, language, link, note, number, percent, place, Screen, t, thumbOf,
} from "./kit.js";
import { merge } from "./merging.js";
import { paged } from "./paged.js";
import { tilesOf } from "./tiles.js";

const TILE = 104;
const share = (value) => value !== null && percent(value);

define("class", class extends Screen {
	begin() {
		this.path = `v1/classes/${place()[1]}`;
		const read = (after) => get(this.path, { limit: 200, after });
		this.pages = paged(read, "samples", (samples, entry) => this.#show(samples, entry));
		const changed = (n) => this.put({ bar: n > 0, chosen: t("selected", { n }) });
		this.tiles = tilesOf(this, { size: TILE, changed, nearEnd: this.pages.more });
		super.begin();
	}

	async load() {
		try {
			await this.pages.load();
		} catch (error) {
			if (error.status !== 404) throw error;
			this.put({ label: t("class.gone"), gone: true, about: false, host: false, bar: false });
		}
	}

	#show(samples, entry) {
		this.entry = entry;
		const { label, enough } = entry;
		this.put({
			label, gone: false, about: true, host: true, count: number(entry.count), teach: link("teach", label),
			accuracy: share(entry.expected_accuracy), corrections: share(entry.corrections),
			chip: enough !== null && [icon(enough ? "sure" : "unsure"), t(enough ? "class.enough" : "class.more")],
			advice: language === "en" && entry.advice,  // the service speaks English
		});
		const items = samples.map(({ id, photo, hurts }) => ({
			id, src: photo && thumbOf("samples", id), hasBadge: hurts,
			alt: t(hurts ? "class.hurts" : "class.photo", entry),
		}));
		items.sort((one, other) => other.hasBadge - one.hasBadge);
		this.tiles.show([{ items }]);
	}

	async rename() {
		const { label: old } = this.entry;
		const label = await askName(t("class.rename.title"), t("class.rename"), old);
		if (label && label !== old) await act(t("did.rename", { old, label }), "PATCH", this.path, { label });
	}

	async merge() {
		const label = await askName(t("merge.with", this.entry), t("next"));
		if (!label) return;
		const { classes } = await get("v1/classes", { q: label, limit: 50 });
		const other = classes.find((entry) => entry.label === label && entry.id !== this.entry.id);
		if (!other) return note(t("merge.unknown", { label }));
		const kept = await merge(this.entry, other);
		if (kept) go("class", kept.id);
	}

	async delete() {
		await act(t("did.remove", this.entry), "DELETE", this.path);
		go("classes");
	}

	async move() {
		const ids = [...this.tiles.selected];
		const label = await askName(t("review.name.title", { n: ids.length }), t("class.move"));
		if (!label || label === this.entry.label) return;
		this.clear();
		await act(t("did.relabel", { n: ids.length, label }), "POST", "v1/samples:relabel", { ids, label });
	}

	async forget() {
		const ids = [...this.tiles.selected];
		this.clear();
		await act(t("did.forget", { n: ids.length, ...this.entry }), "POST", "v1/samples:forget", { ids });
	}
});
