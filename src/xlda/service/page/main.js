import { camera } from "./camera.js";
import "./history.js";
import {
	ask, get, go, hooks, language, loadTexts, noteError, nowAt, number, pause, place, put, redo, store, t,
	translate, undo,
} from "./kit.js";
import "./knows.js";
import "./stage.js";
import "./name_field.js";
import "./look.js";
import "./one_class.js";
import { startOutbox } from "./outbox.js";
import { firstStart, signIn, useCode } from "./pairing.js";
import { readReview } from "./review.js";
import { listen } from "./stream.js";
import "./teach.js";

const TABS = ["look", "teach", "review", "classes", "knows", "history"];
const modelName = () => store.get("model").model.replace(/\.xlda$/, "");

function show() {
	const [name] = place();
	const tab = /class|pairs/.test(name) ? "classes" : name;
	if (!TABS.includes(tab)) return show(nowAt(store.get("model").samples ? "look" : "teach"));
	if (!/look|teach/.test(name)) camera.rest();
	put(document, { main: document.createElement(`xlda-${name}`) });
	document.title = `${t(`nav.${tab}`)} · ${modelName()}`;
	for (const node of document.querySelectorAll("[data-tab]")) {
		node.ariaCurrent = node.dataset.tab === tab ? "page" : null;
	}
	scrollTo(0, 0);
}

async function readModel() {
	const model = await get("v1/model");
	store.set({ model, seq: Math.max(model.seq, store.get("seq")) });
	const { classList } = document.body;
	for (const scope of ["teach", "admin"]) classList.toggle(`may-${scope}`, model.scopes.includes(scope));
	classList.toggle("is-empty", !model.samples);
	classList.toggle("no-camera", !camera.isPossible);
}

let reading = 0;

function readSoon() {
	clearTimeout(reading);
	reading = setTimeout(() => readModel().then(readReview).catch(() => {}), 500);
}

hooks.gone = async () => {
	if (!store.get("isThere")) return;
	store.set({ isThere: false });
	const isThere = () => fetch("healthz").then(({ ok }) => ok, () => false);
	for (let wait = 500; !(await isThere()); wait = Math.min(4000, wait * 1.5)) await pause(wait);
	store.set({ isThere: true });
	readSoon();
};

// What a key does; parts of a screen name theirs by data-key.
function actOf({ key, ctrlKey, metaKey, shiftKey, target }) {
	const name = key.length > 1 ? key : key.toLowerCase();
	if (ctrlKey || metaKey) return { z: shiftKey ? redo : undo, y: redo }[name];
	if (key === "?") return help;
	if (TABS[key - 1]) return () => go(TABS[key - 1]);
	const keyed = [...document.querySelectorAll("main [data-key]")];
	const node = keyed.find((one) => one.dataset.key === name && one.checkVisibility());
	const isForButton = key === " " && target.closest("button, a");
	return !isForButton && node && (() => (node.matches("input") ? node.focus() : node.click()));
}

function onKey(event) {
	const isElsewhere = event.altKey || event.target.closest("dialog, input:not([type=file]), select");
	const run = !isElsewhere && actOf(event);
	if (run) run(event.preventDefault());
}

function help() {
	ask("help", {}, ({ language: choice }) => {
		choice.value = language;
		choice.onchange = () => location.reload((localStorage.language = choice.value));
	});
}

function follow() {
	const { $ } = document;
	store.on(["isThere", "waiting"], () => {
		const [isThere, n] = [store.get("isThere"), store.get("waiting")];
		put(document, { bar: !isThere || n > 4, gone: !isThere, waits: n && t("waiting", { n }) });
	});
	for (const [name, run] of [["undo", undo], ["redo", redo]]) {
		$[name].onclick = run;
		store.on(name, () => {
			const what = store.get(name);
			$[name].disabled = !what;
			$[name].title = what ? `${t(name)}: ${what}` : t(`nothing.${name}`);
		});
	}
	store.on(["toReview", "model"], () => {
		const n = store.get("toReview");
		put(document, { toReview: n > 0 && number(n), brand: modelName() });
	});
	store.onEvent(readSoon);
	$.help.onclick = help;
	addEventListener("keydown", onKey);
	addEventListener("hashchange", async () => {
		await useCode();
		document.querySelector("dialog:not([data-firm])")?.close("");
		$.main.focus({ preventScroll: true });
		show();
	});
}

async function begin() {
	await loadTexts();
	translate(document);
	hooks.signIn = signIn;
	await useCode();
	while (!store.get("model")) {
		const error = await readModel().catch((problem) => problem);
		if (error?.status === 401) return;
		if (error) await pause(2000, put(document, { main: error.message }));
	}
	follow();
	startOutbox();
	show();
	listen();
	readReview().catch(() => {});
	firstStart(show);
}

addEventListener("unhandledrejection", (event) => {
	if ("status" in event.reason) noteError(event.reason, event.preventDefault());
});
begin();
