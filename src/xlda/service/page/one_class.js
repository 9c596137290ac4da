// One class: its photos, how well it is known, and what can be done with it.
import { change, get } from "./api.js";
import { ask, askName } from "./dialogs.js";
import { icon, photoOf } from "./dom.js";
import { merge } from "./merging.js";
import { Paged } from "./paged.js";
import { go, link, place } from "./router.js";
import { define, Screen } from "./screen.js";
import { language, number, percent, t } from "./texts.js";
import { Tiles } from "./tiles.js";
import { act, tell } from "./undo.js";

const TILE = 104;  // pixels
const share = (value) => typeof value === "number" && percent(value);

class OneClass extends Screen {
	begin() {
		this.path = `v1/classes/${place()[1]}`;
		const read = async (after) => {
			const found = await get(this.path, { limit: 200, after });
			return { ...found, items: found.samples };
		};
		this.paged = new Paged(read, (samples, entry) => this.#show(samples, entry));
		this.tiles = new Tiles(this, { size: TILE, changed: () => this.#showBar(), nearEnd: this.paged.more });
		super.begin();
	}

	async load() {
		try {
			await this.paged.load();
		} catch (error) {
			if (error.status !== 404) throw error;
			this.put({ label: t("class.gone"), gone: true, about: false, host: false, bar: false });
		}
	}

	#show(samples, entry) {
		this.entry = entry;
		const { label, enough, expected_accuracy: accuracy, corrections } = entry;
		const hurting = samples.filter(({ hurts }) => hurts);
		this.hurting = hurting.map(({ id }) => id);
		this.put({
			label, gone: false, about: true, host: true, count: number(entry.count), teach: link("teach", label),
			accuracyBox: share(accuracy) && true, accuracy: share(accuracy),
			correctionsBox: share(corrections) && true, corrections: share(corrections),
			chip: typeof enough === "boolean" && [icon(enough ? "sure" : "unsure"), t(enough ? "class.enough" : "class.more")],
			advice: language === "en" && entry.advice,  // the service speaks English
			hurting: hurting.length > 0, hurtingText: t("class.hurting", { n: hurting.length }),
		});
		this.tiles.sections = [{
			items: [...hurting, ...samples.filter(({ hurts }) => !hurts)].map(({ id, photo, hurts }) => ({
				id, src: photo && photoOf("samples", id), alt: t(hurts ? "class.hurts" : "class.photo", entry), hasBadge: hurts,
			})),
		}];
	}

	#showBar() {
		const n = this.tiles.selected.size;
		this.put({ bar: n > 0, chosen: t("review.selected", { n }) });
	}

	clear() {
		this.tiles.select([]);
	}

	selectHurting() {
		this.tiles.select(this.hurting);
	}

	async rename() {
		const { label: old } = this.entry;
		let label = old;
		const said = await ask("rename", {}, ({ input }) => {
			input.value = old;
			input.select();
			input.oninput = () => (label = input.value.trim());
		});
		if (said && label && label !== old) await act(t("did.renamed", { old, label }), "PATCH", this.path, { label });
	}

	async merge() {
		const label = await askName(t("merge.with", this.entry), t("next"));
		if (!label) return;
		const { classes } = await get("v1/classes", { q: label, limit: 50 });
		const other = classes.find((entry) => entry.label === label && entry.id !== this.entry.id);
		if (!other) throw new Error(t("merge.unknown", { label }));
		const kept = await merge(this.entry, other);
		if (kept) go("class", kept.id);
	}

	async delete() {
		const { label } = this.entry;
		if (!(await ask("remove", { title: t("class.remove.title", { label }) }))) return;
		await act(t("did.removed", { label }), "DELETE", this.path);
		go("classes");
	}

	async move() {
		const ids = [...this.tiles.selected];
		const label = await askName(t("review.name.title", { n: ids.length }), t("class.move"));
		if (!label) return;
		this.clear();
		await act(t("did.moved", { n: ids.length, label }), "POST", "v1/samples:relabel", { ids, label });
	}

	/** One event each, and one undo for all of them. */
	async forget() {
		const seqs = [];
		const ids = [...this.tiles.selected];
		this.clear();
		try {
			for (const id of ids) seqs.push((await change("DELETE", `v1/samples/${id}`)).seq);
		} finally {
			if (seqs.length) tell(t("did.forgotten", { n: seqs.length, label: this.entry.label }), seqs);
		}
	}
}

define("class", OneClass);
