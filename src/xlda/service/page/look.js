// Look: what is this? And is the answer right?
import { call } from "./api.js";
import { camera } from "./camera.js";
import { askName } from "./dialogs.js";
import { Live } from "./live.js";
import { noteError } from "./notes.js";
import { prepared } from "./photos.js";
import { define, Screen } from "./screen.js";
import { store } from "./store.js";
import { t } from "./texts.js";
import { act } from "./undo.js";
import "./answer.js";

class Look extends Screen {
	#answer = null;
	#photo = null;

	begin() {
		const { stage } = this.$;
		this.live = new Live((answer, photo) => this.#show(answer, photo, true));
		stage.addEventListener("photos", ({ detail }) => this.#ask(detail[0]).catch(noteError));
		stage.addEventListener("camera", () => this.#goOn());
		this.ends.push(() => this.live.stop(), store.on("model", () => {
			const isEmpty = !store.get("model").samples;
			this.put({ leadText: t(isEmpty ? "look.empty" : "look.first"), leadLink: isEmpty && "#/teach" });
		}));
		this.#goOn();
	}

	#goOn() {
		const isLive = camera.isOn && !this.$.stage.matches(".has-photo");
		if (isLive) this.live.start();
		else this.live.stop();
		this.put({ pause: camera.isOn, pauseText: t(isLive ? "look.pause" : "look.again") });
	}

	/** Ask about a photo. */
	async #ask(file) {
		const body = await prepared(file);
		this.$.stage.showPhoto(body);
		this.#goOn();
		this.#photo = body;
		this.classList.add("asking");
		const query = { k: 3, unknown: 0.05, like: 3 };
		const asked = call("POST", "v1/predict", { query, body, type: body.type });
		const answer = await asked.finally(() => this.classList.remove("asking"));
		if (body === this.#photo) this.#show(answer, body, false);
	}

	#show(answer, photo, isPassing) {
		[this.#answer, this.#photo] = [answer, photo];
		this.put({ lead: false, acts: true });
		this.$.answer.show(answer, isPassing);
		this.classList.toggle("has-label", answer.label !== null);
		this.dataset.answers = Number(this.dataset.answers ?? 0) + 1;
		this.dataset.age = Math.round(answer.age);
	}

	/** Hold what the answer is about, or go on looking. */
	pause() {
		this.$.stage.showPhoto(this.live.isOn && this.#photo);
		this.#goOn();
	}

	async #say(text, said) {
		const photo = this.#photo;
		const { taught } = await act(text, "POST", `v1/predictions/${this.#answer.id}/feedback`, said);
		if (taught && !this.live.isOn && photo === this.#photo) await this.#ask(photo);  // what it says now
	}

	yes() {
		return this.#say(t("did.yes", this.#answer), { correct: true });
	}

	async no() {
		const wasLive = this.live.isOn;
		if (wasLive) this.pause();
		const label = await askName(t("look.no.title"), t("look.no.ok"));
		if (label) await this.#say(t("did.is", { label }), { label });
		if (wasLive) this.pause();
	}

	notThis() {
		return this.#say(t("did.not", this.#answer), { not: this.#answer.class_id });
	}

	unknown() {
		return this.#say(t("did.unknown"), { unknown: true });
	}
}

define("look", Look);
