import { made } from "./dom.js";

export async function ask(name, values, prepare) {
	const dialog = made(name, values);
	const isFirm = "firm" in dialog.dataset;
	document.body.append(dialog);
	dialog.onclick = ({ target, detail }) => {
		if (target.closest("[data-close]") || (target === dialog && !isFirm && detail < 2)) dialog.close("");
	};
	if (isFirm) dialog.oncancel = (event) => event.preventDefault();
	dialog.showModal();
	prepare?.(dialog.$, dialog);
	await new Promise((resolve) => (dialog.onclose = resolve));
	dialog.remove();
	return dialog.returnValue;
}

export async function askName(title, ok, value = "") {
	let label = "";
	await ask("ask-name", { title, ok }, ({ field }, dialog) => {
		field.value = value;
		field.focus();
		field.onname = (name) => dialog.close((label = name));
		dialog.firstChild.onsubmit = () => (label = field.value);
	});
	return label;
}
