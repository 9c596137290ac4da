// Questions in front of the page, by the browser's own dialog element.
import { made } from "./dom.js";

/** Ask by a template; gives the value of the button that was pressed, or nothing. */
export async function ask(name, values, prepare) {
	const dialog = made(name, values);
	const before = document.activeElement;
	const isFirm = "firm" in dialog.dataset;
	document.body.append(dialog);
	dialog.onclick = ({ target }) => {
		if (target.closest("[data-close]") || (target === dialog && !isFirm)) dialog.close("");
	};
	dialog.oncancel = (event) => isFirm && event.preventDefault();
	dialog.showModal();
	prepare?.(dialog.$, dialog);
	await new Promise((resolve) => (dialog.onclose = resolve));
	dialog.remove();
	before?.focus({ preventScroll: true });
	return dialog.returnValue;
}

/** Ask for the name of a class; nothing where nobody says. */
export async function askName(title, ok) {
	let label = "";
	await ask("ask-name", { title, ok }, ({ field }, dialog) => {
		field.focus();
		field.addEventListener("name", ({ detail }) => dialog.close((label = detail)));
		dialog.firstChild.onsubmit = () => (label = field.value);
	});
	return label;
}
