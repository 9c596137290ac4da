import { t } from "./texts.js";

export const hooks = {};

function refused(status, detail = t("refused.other")) {
	const said = t(`refused.${status}`, { detail });
	return Object.assign(new Error(/^refused/.test(said) ? detail : said), { status });
}

// It needs no secure context, as `randomUUID` would.
export const newKey = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

export const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

export const get = (path, query, signal) => call("GET", path, { query, signal });

// It has a key, so that it can be sent again.
export async function change(method, path, json) {
	const key = newKey();
	try {
		return await call(method, path, { json, key });
	} catch (error) {
		if (![0, 429, 503].includes(error.status)) throw error;
	}
	await pause(1000);
	return call(method, path, { json, key });
}

export const predict = (body, like) =>
	call("POST", "v1/predict", { query: { k: 3, unknown: 0.05, like }, body });

export async function call(method, path, { query = {}, json, body, key, signal } = {}) {
	const asked = new URLSearchParams(Object.entries(query).filter(([, value]) => value));
	const headers = { "Content-Type": body?.type ?? "application/json" };
	if (key) headers["Idempotency-Key"] = key;
	const given = { method, headers, signal, body: json ? JSON.stringify(json) : body };
	const answer = await fetch(`${path}?${asked}`, given).catch(() => signal?.throwIfAborted());
	if (!answer || [502, 504].includes(answer.status)) {  // or nobody is behind a proxy
		hooks.gone();
		throw refused(0);
	}
	const content = await answer.json().catch(() => signal?.throwIfAborted() ?? {});
	if (answer.ok) return content;
	if (answer.status === 401) hooks.signIn();
	throw refused(answer.status, content.detail);
}
