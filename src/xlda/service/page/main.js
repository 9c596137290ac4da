// The page begins here: texts, who this is, the stream of events, and the screen that the address names.
import { get, pause, whenCalling } from "./api.js";
import { camera } from "./camera.js";
import { ask } from "./dialogs.js";
import { translate } from "./dom.js";
import { noteError } from "./notes.js";
import { startOutbox } from "./outbox.js";
import { firstStart, signIn, useCode } from "./pairing.js";
import { readReview } from "./review.js";
import { go, place } from "./router.js";
import { store } from "./store.js";
import { Stream } from "./stream.js";
import { language, loadTexts, number, t } from "./texts.js";
import { redo, undo } from "./undo.js";
import "./classes.js";
import "./history.js";
import "./knows.js";
import "./stage.js";
import "./name_field.js";
import "./look.js";
import "./one_class.js";
import "./teach.js";

const TABS = ["look", "teach", "review", "classes", "knows", "history"];
const WITHIN = { class: "classes", pairs: "classes" };
const byId = (id) => document.getElementById(id);
const modelName = () => store.get("model").model.replace(/\.xlda$/, "");

/** Show the screen that the address names. */
function show() {
	const [name] = place();
	const tab = WITHIN[name] ?? name;
	if (!TABS.includes(tab)) return location.replace(store.get("model").samples ? "#/look" : "#/teach");
	if (!["look", "teach"].includes(name)) camera.rest();
	byId("main").replaceChildren(document.createElement(`xlda-${name}`));
	document.title = `${t(`nav.${tab}`)} · ${modelName()}`;
	for (const node of document.querySelectorAll("[data-tab]")) node.ariaCurrent = node.dataset.tab === tab ? "page" : null;
	scrollTo(0, 0);
}

async function readModel() {
	const model = await get("v1/model");
	store.set({ model, seq: Math.max(model.seq, store.get("seq")) });
	const { scopes = ["admin"] } = model;
	document.body.classList.toggle("may-admin", scopes.includes("admin"));
	document.body.classList.toggle("may-teach", scopes.includes("admin") || scopes.includes("teach"));
}

let reading = 0;

/** Numbers follow a moment after changes. */
function readSoon() {
	clearTimeout(reading);
	reading = setTimeout(() => readModel().then(readReview).catch(() => {}), 500);
}

/** The service does not answer: look for it until it does. */
async function lookForService() {
	if (!store.get("isThere")) return;
	store.set({ isThere: false });
	const isThere = () => fetch("healthz").then(({ ok }) => ok, () => false);
	for (let wait = 500; !(await isThere()); wait = Math.min(4000, wait * 1.5)) await pause(wait);
	store.set({ isThere: true });
	readSoon();
}

/** What a key does: undo, redo, help, a screen, or what a button on the screen says with data-key. */
function actOf({ key, ctrlKey, metaKey, shiftKey, target }) {
	const letter = key.toLowerCase();
	if (ctrlKey || metaKey) return { z: shiftKey ? redo : undo, y: redo }[letter];
	if (key === "?") return help;
	if (TABS[key - 1]) return () => go(TABS[key - 1]);
	const keyed = document.querySelectorAll(`main [data-key="${CSS.escape(key.length > 1 ? key : letter)}"]`);
	const node = [...keyed].find((one) => one.checkVisibility());
	const isOwn = key === " " && target.closest("button, a");
	return node && !isOwn && (() => (node.matches("input") ? node.focus() : node.click()));
}

function onKey(event) {
	const isElsewhere = document.querySelector("dialog[open]") || event.target.closest("input:not([type=file]), select");
	const run = !event.altKey && !isElsewhere && actOf(event);
	if (!run) return;
	event.preventDefault();
	run();
}

function help() {
	ask("help", {}, ({ language: choice }) => {
		choice.value = language;
		choice.onchange = () => location.reload((localStorage.language = choice.value));
	});
}

/** Keep what stands around the screens up to date. */
function follow() {
	store.on(["isThere", "waiting"], () => {
		const [isThere, n] = [store.get("isThere"), store.get("waiting")];
		byId("bar").hidden = isThere && n < 5;
		byId("bar-text").textContent = `${isThere ? "" : t("gone.bar")} ${n ? t("waiting", { n }) : ""}`;
	});
	for (const [name, run] of [["undo", undo], ["redo", redo]]) {
		byId(name).onclick = run;
		store.on(name, () => {
			const what = store.get(name);
			byId(name).disabled = !what;
			byId(name).title = what ? `${t(name)}: ${what}` : t(`nothing.${name}`);
		});
	}
	store.on("toReview", () => (byId("to-review").textContent = number(store.get("toReview")).replace(/^0$/, "")));
	store.on("model", () => (byId("brand").textContent = modelName()));
	store.onEvent(readSoon);
	byId("help").onclick = help;
	addEventListener("keydown", onKey);
	addEventListener("hashchange", async () => {
		await useCode();
		show();
		byId("main").focus({ preventScroll: true });
	});
}

async function begin() {
	await loadTexts();
	translate(document);
	whenCalling({ gone: lookForService, signIn });
	await useCode();
	while (!store.get("model")) {
		const error = await readModel().catch((problem) => problem);
		if (error?.status === 401) return;  // it is asked who this is; then the page loads anew
		if (error) await pause(2000, byId("main").replaceChildren(error.message));
	}
	follow();
	startOutbox();
	show();
	const broke = () => get("healthz").catch(() => {});
	new Stream({ take: (event) => store.take(event), broke, seq: () => store.get("seq") });
	readReview().catch(() => {});
	firstStart().catch(noteError);
}

begin();
