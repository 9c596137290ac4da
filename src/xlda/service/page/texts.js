// The texts of the page, in the language of whoever reads it.

const LANGUAGES = ["en", "de", "fr", "es"];
let texts = {};
export let language = "en";

/** Load the texts of the language that was chosen here, or else of the browser. */
export async function loadTexts() {
	const wished = [localStorage.language ?? "", ...navigator.languages].map((name) => name.slice(0, 2));
	language = wished.find((name) => LANGUAGES.includes(name)) ?? "en";
	texts = await (await fetch(new URL(`texts/${language}.json`, import.meta.url))).json();
	document.documentElement.lang = language;
}

/** A text by its key, with each `{name}` replaced; `n` chooses between one and many. */
export function t(key, values = {}) {
	let text = texts[key] ?? key;
	if (text.other) text = text[new Intl.PluralRules(language).select(values.n)] ?? text.other;
	return text.replace(/\{(\w+)\}/g, (_, name) => (name === "n" ? number(values.n) : values[name] ?? ""));
}

export const number = (value) => value.toLocaleString(language, { maximumFractionDigits: 1 });

/** A percentage that never rounds to a certainty which is not there. */
export function percent(share) {
	const isNearlyOne = share > 0.99 && share < 1;
	return (isNearlyOne ? "> " : "") + (isNearlyOne ? 0.99 : share).toLocaleString(language, { style: "percent" });
}

export function ago(time) {
	const seconds = (new Date(time) - Date.now()) / 1000;
	const [unit, length] = seconds < -86400 ? ["day", 86400] : seconds < -3600 ? ["hour", 3600] : ["minute", 60];
	return new Intl.RelativeTimeFormat(language, { numeric: "auto" }).format(Math.ceil(seconds / length), unit);
}
