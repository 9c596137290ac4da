// Where photos come from: the camera, a file, a drop, the clipboard. Look and Teach both stand around it.
import { camera } from "./camera.js";
import { noteError } from "./notes.js";
import { define, Screen } from "./screen.js";
import { t } from "./texts.js";

/** Fires `photos` with a list of files, and `camera` when that goes on or off. */
class Stage extends Screen {
	begin() {
		const { video, which } = this.$;
		video.muted = true;
		camera.video = video;
		which.onchange = () => {
			localStorage.camera = which.value;
			this.startCamera();
		};
		for (const input of this.querySelectorAll("[type=file]")) {
			input.multiple = this.hasAttribute("many") && !input.hasAttribute("capture");
			input.onchange = () => {
				this.#give(input.files);
				input.value = "";
			};
		}
		this.classList.toggle("no-camera", !camera.isPossible);
		this.#listen(camera, "change", () => this.#show());
		this.#listen(document, "paste", ({ clipboardData }) => this.#give(clipboardData.files));
		for (const kind of ["dragover", "dragleave", "drop"]) this.#listen(document, kind, (event) => this.#drag(event));
		this.ends.push(() => this.showPhoto(null));
		this.#show();
		if (camera.isPossible && localStorage.cameraWasOn && !camera.isOn) this.startCamera();
	}

	/** Turn the camera on; gives whether it is. */
	async startCamera() {
		this.classList.add("starting");
		await camera.start().catch(({ name }) => {
			noteError(new Error(t(name === "NotAllowedError" ? "camera.refused" : "camera.none")));
		});
		this.classList.remove("starting");
		return camera.isOn;
	}

	stopCamera() {
		camera.stop();
	}

	/** Show a photo instead of the camera; null shows the camera again. */
	showPhoto(blob) {
		URL.revokeObjectURL(this.$.photo.src);
		this.put({ photo: blob && URL.createObjectURL(blob) });
		this.classList.toggle("has-photo", Boolean(blob));
	}

	async #show() {
		const { video, which } = this.$;
		const { isOn } = camera;
		if (video.srcObject !== camera.stream) video.srcObject = camera.stream;
		this.classList.toggle("live", isOn);
		this.classList.toggle("mirrored", isOn && camera.isFront);
		this.dispatchEvent(new Event("camera"));
		if (!isOn) return;
		video.play().catch(() => {});
		const { deviceId: chosen } = camera.settings;
		const found = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "videoinput");
		which.replaceChildren(...found.map(({ deviceId, label }) => new Option(label, deviceId, false, deviceId === chosen)));
		which.hidden = found.length < 2;
	}

	#give(files) {
		const detail = [...files].filter(({ type }) => type.startsWith("image/"));
		if (detail.length) this.dispatchEvent(new CustomEvent("photos", { detail }));
	}

	#drag(event) {
		event.preventDefault();
		this.classList.toggle("over", event.type === "dragover");
		if (event.type === "drop") this.#give(event.dataTransfer.files);
	}

	#listen(target, kind, listener) {
		target.addEventListener(kind, listener);
		this.ends.push(() => target.removeEventListener(kind, listener));
	}
}

define("stage", Stage);
