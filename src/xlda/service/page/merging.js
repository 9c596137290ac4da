import { card } from "./classes.js";
import { act, ask, define, get, link, made, percent, photoOf, Screen, t } from "./kit.js";

export async function merge(one, other) {
	let [kept, gone] = [one, other];
	const values = () => ({ label: kept.label, old: gone.label });
	const isWanted = await ask("merge", {}, ({ choices, says }) => {
		const choose = (entry) => {
			[kept, gone] = entry === one ? [one, other] : [other, one];
			says.textContent = t("merge.says", values());
		};
		for (const entry of [one, other]) {
			const choice = made("choice", { name: entry.label, photo: photoOf("classes", entry.id) });
			choice.$.input.checked = entry === one;
			choice.onchange = () => choose(entry);
			choices.append(choice);
		}
		choose(one);
	});
	if (!isWanted) return;
	await act(t("did.merge", values()), "POST", `v1/classes/${kept.id}:merge`, { other: gone.id });
	return kept;
}

define("pairs", class extends Screen {
	async load() {
		const { pairs } = await get("v1/confusable");
		const list = pairs.map(this.#pair);
		this.put({ list });
	}

	#pair({ class_id, label, taken_for_id, taken_for, share }) {
		const [one, other] = [{ id: class_id, label }, { id: taken_for_id, label: taken_for }];
		const says = t("pairs.says", { label, other: taken_for, share: percent(share) });
		const node = made("pair", { one: card(one), other: card(other), says, teach: link("teach", label) });
		node.$.merge.onclick = () => merge(one, other);
		return node;
	}
});
