// Two classes that are one, and pairs of which that may be so. Which name survives is chosen by looking at both.
import { get } from "./api.js";
import { card } from "./classes.js";
import { ask } from "./dialogs.js";
import { made, photoOf } from "./dom.js";
import { noteError } from "./notes.js";
import { link } from "./router.js";
import { define, Screen } from "./screen.js";
import { percent, t } from "./texts.js";
import { act } from "./undo.js";

/** Ask which name survives, and merge; gives the class that is there then, or nothing. */
export async function merge(one, other) {
	let [kept, gone] = [one, other];
	const said = () => ({ kept: kept.label, gone: gone.label });
	const isWanted = await ask("merge", {}, ({ choices, says }) => {
		const choose = (entry) => {
			[kept, gone] = entry === one ? [one, other] : [other, one];
			says.textContent = t("merge.says", said());
		};
		for (const entry of [one, other]) {
			const choice = made("choice", { name: entry.label, photo: photoOf("classes", entry.id) });
			choice.$.input.checked = entry === one;
			choice.onchange = () => choose(entry);
			choices.append(choice);
		}
		choose(one);
	});
	if (!isWanted) return null;
	await act(t("did.merged", said()), "POST", `v1/classes/${kept.id}:merge`, { other: gone.id });
	return kept;
}

class Pairs extends Screen {
	async load() {
		const { pairs } = await get("v1/confusable");
		const list = pairs.filter((pair) => pair.class_id && pair.taken_for_id).map((pair) => this.#pair(pair));
		this.put({ says: t(list.length ? "pairs.lead" : "pairs.empty"), list });
	}

	#pair({ class_id, label, taken_for_id, taken_for, share }) {
		const [one, other] = [{ id: class_id, label }, { id: taken_for_id, label: taken_for }];
		const says = t("pairs.says", { label, other: taken_for, share: percent(share) });
		const node = made("pair", { one: card(one), other: card(other), says, teach: link("teach", label), teachText: t("pairs.teach", one) });
		node.$.merge.onclick = () => merge(one, other).catch(noteError);
		return node;
	}
}

define("pairs", Pairs);
