import "./answer.js";
import { camera } from "./camera.js";
import { askName, change, define, note, pause, predict, Screen, t, tell } from "./kit.js";
import { liveView } from "./live.js";
import { prepared } from "./photos.js";

const [FRAME, SOON] = [20, 120];  // ms; drawing takes time

define("look", class extends Screen {
	#answer = null;
	#photo = null;

	begin() {
		const { stage } = this.$;
		this.live = liveView((answer, photo) => this.#show(answer, photo, true));
		stage.onphotos = ([photo]) => this.#ask(photo);
		stage.oncamera = () => this.#goOn();
		this.ends.push(() => this.live.stop());
	}

	#goOn() {
		const isLive = camera.isOn && !this.$.stage.matches(".has-photo");
		this.live[isLive ? "start" : "stop"]();
		this.put({ pause: camera.isOn, pauseText: t(isLive ? "look.pause" : "look.again") });
	}

	async #ask(file) {
		const body = (this.#photo = await prepared(file));
		this.live.stop();
		this.classList.add("asking");
		const shown = predict(body, 3).finally(() => this.classList.remove("asking"))
			.then((answer) => body === this.#photo && this.#show(answer, body));
		await Promise.race([shown.then(() => pause(FRAME)), pause(SOON)]).catch(() => {});
		if (body === this.#photo) {
			this.$.stage.showPhoto(body);
			this.#goOn();
		}
		return shown;
	}

	#show(answer, photo, isPassing = false) {
		[this.#answer, this.#photo] = [answer, photo];
		this.put({ lead: false, acts: true, answer: true });
		this.$.answer.show(answer, isPassing);
		this.classList.toggle("has-label", answer.label !== null);
		this.dataset.age = Math.round(answer.age);
	}

	pause() {
		this.$.stage.showPhoto(this.live.isOn && this.#photo);
		this.#goOn();
	}

	// `correct`, `not`, `unknown` or `label`.
	async say({ said, value = true }, values = this.#answer) {
		const [{ id, class_id }, photo] = [this.#answer, this.#photo];
		const body = { [said]: said === "not" ? class_id : value };
		const { taught, noted, seq } = await change("POST", `v1/predictions/${id}/feedback`, body);
		const text = t(`did.${said}`, values);
		if (taught || noted) tell(text, [seq]);
		else note(text);
		if (taught && !this.live.isOn && photo === this.#photo) await this.#ask(photo);
	}

	async no() {
		const wasLive = this.live.isOn;
		if (wasLive) this.pause();
		const label = await askName(t("look.no.title"), t("look.no.ok"));
		if (label) await this.say({ said: "label", value: label }, { label });
		if (wasLive) this.pause();
	}
});
