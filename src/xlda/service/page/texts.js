const LANGUAGES = ["en", "de", "fr", "es"];
const formatsOf = (name) => ({
	number: new Intl.NumberFormat(name, { maximumFractionDigits: 1 }),
	percent: new Intl.NumberFormat(name, { style: "percent" }),
	plural: new Intl.PluralRules(name),
	time: new Intl.DateTimeFormat(name, { dateStyle: "medium", timeStyle: "short" }),
});

let texts = {};
export let language = "en";
let formats = formatsOf(language);  // to make one takes longer than to use it a hundred times

export async function loadTexts() {
	const wished = [localStorage.language ?? "", ...navigator.languages].map((name) => name.slice(0, 2));
	language = wished.find((name) => LANGUAGES.includes(name)) ?? "en";
	texts = await (await fetch(new URL(`texts/${language}.json`, import.meta.url))).json();
	formats = formatsOf((document.documentElement.lang = language));
}

// Each `{name}` is replaced; `n` chooses between one and many.
export function t(key, values = {}) {
	let text = texts[key] ?? key;
	if (text.other) text = text[formats.plural.select(values.n)] ?? text.other;
	return text.replace(/\{(\w+)\}/g, (_, name) => (name === "n" ? number(values.n) : values[name] ?? ""));
}

export const number = (value) => formats.number.format(value);

// Never rounds to a certainty which is not there.
export const percent = (share) => formats.percent.format(share < 1 ? Math.min(share, 0.99) : 1);

export const dated = (time) => formats.time.format(new Date(time));
