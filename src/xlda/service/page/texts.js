const LANGUAGES = ["en", "de", "fr", "es"];
let texts = {};
export let language = "en";

export async function loadTexts() {
	const wished = [localStorage.language ?? "", ...navigator.languages].map((name) => name.slice(0, 2));
	language = wished.find((name) => LANGUAGES.includes(name)) ?? "en";
	texts = await (await fetch(new URL(`texts/${language}.json`, import.meta.url))).json();
	document.documentElement.lang = language;
}

// Each `{name}` is replaced; `n` chooses between one and many.
export function t(key, values = {}) {
	let text = texts[key] ?? key;
	if (text.other) text = text[new Intl.PluralRules(language).select(values.n)] ?? text.other;
	return text.replace(/\{(\w+)\}/g, (_, name) => (name === "n" ? number(values.n) : values[name] ?? ""));
}

export const number = (value) => value.toLocaleString(language, { maximumFractionDigits: 1 });

// Never rounds to a certainty which is not there.
export const percent = (share) =>
	(share < 1 ? Math.min(share, 0.99) : 1).toLocaleString(language, { style: "percent" });

export const dated = (time) =>
	new Date(time).toLocaleString(language, { dateStyle: "medium", timeStyle: "short" });
