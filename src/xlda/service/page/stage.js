import { camera } from "./camera.js";
import { define, noteError, Screen, t } from "./kit.js";

// Calls `onphotos` with files, and `oncamera` when that goes on or off.
define("stage", class extends Screen {
	begin() {
		const { video, which } = this.$;
		video.muted = true;
		camera.video = video;
		camera.changed = () => this.isConnected && this.#show();
		this.onchange = ({ target }) => {
			if (target === which) return this.startCamera((localStorage.camera = which.value));
			this.#give(target.files);
			target.value = "";
		};
		for (const input of this.querySelectorAll("[data-many]")) input.multiple = this.hasAttribute("many");
		document.onpaste = ({ clipboardData }) => this.#give(clipboardData.files);
		document.ondragover = document.ondragleave = document.ondrop = (event) => this.#drag(event);
		queueMicrotask(camera.changed);
		if (camera.isPossible && localStorage.cameraWasOn && !camera.isOn) this.startCamera();
	}

	async startCamera() {
		this.classList.add("starting");
		await camera.start().catch(({ name }) => {
			noteError({ message: t(name === "NotAllowedError" ? "camera.refused" : "camera.none") });
		});
		this.classList.remove("starting");
	}

	stopCamera() {
		localStorage.cameraWasOn = "";
		camera.rest();
	}

	showPhoto(blob) {
		URL.revokeObjectURL(this.$.photo.src);
		this.put({ photo: blob && URL.createObjectURL(blob) });
		this.classList.toggle("has-photo", Boolean(blob));
	}

	async #show() {
		const { video, which } = this.$;
		const { isOn, stream } = camera;
		if (video.srcObject !== stream) video.srcObject = stream;
		this.classList.toggle("live", isOn);
		this.classList.toggle("mirrored", isOn && camera.isFront);
		this.oncamera?.();
		if (!isOn) return;
		video.play().catch(() => {});
		const { deviceId: chosen } = camera.track.getSettings();
		const found = (await navigator.mediaDevices.enumerateDevices()).filter(({ kind }) => kind === "videoinput");
		which.replaceChildren(...found.map(({ deviceId, label }) => new Option(label, deviceId)));
		which.value = chosen;
		which.hidden = found.length < 2;
	}

	#give(files) {
		const photos = [...files].filter(({ type }) => type.startsWith("image/"));
		if (photos.length && this.isConnected) this.onphotos(photos);
	}

	#drag(event) {
		event.preventDefault();
		this.classList.toggle("over", event.type === "dragover");
		if (event.type === "drop") this.#give(event.dataTransfer.files);
	}
});
