import { t } from "./texts.js";

export function fill(host, name) {
	const content = document.importNode(document.getElementById(`t-${name}`).content, true);
	translate(content);  // before parts fill themselves
	host.$ = content.$;
	host.replaceChildren(content);
}

export function made(name, values = {}) {
	const box = document.createElement("div");
	fill(box, name);
	put(box, values);
	return Object.assign(box.firstElementChild, { $: box.$ });
}

const ATTRIBUTES = { a: "href", img: "src", polygon: "points", polyline: "points", use: "href" };

// Text, elements or an address for parts; others are hidden.
export function put({ $ }, values) {
	for (const [part, value] of Object.entries(values)) {
		const node = $[part];
		node.hidden = !value;
		if (node.hidden || value === true) continue;
		const attribute = ATTRIBUTES[node.localName];
		if (attribute) node.setAttribute(attribute, value);
		else node.replaceChildren(...[value].flat());
	}
}

export function translate(host) {
	host.$ = {};
	for (const node of host.querySelectorAll("*")) {
		const { ref, text, label, alt, icon: symbol } = node.dataset;
		if (ref) host.$[ref] = node;
		if (text) node.textContent = t(text);
		if (label) node.ariaLabel = node.placeholder = t(label);
		if (label && node.matches(".round")) node.title = t(label);
		if (alt) node.alt = t(alt);
		if (symbol) node.append(icon(symbol));
	}
}

export const icon = (name) => made("icon", { use: `#i-${name}` });

export const photoOf = (what, id, size = 256) => `v1/${what}/${id}/photo?size=${size}&missing=empty`;

export const thumbOf = (what, id) => photoOf(what, id, devicePixelRatio > 1 ? 256 : 128);
