// The one camera of the page. Only this needs https or localhost.
import { jpegOf } from "./photos.js";

const SIZE = { width: { ideal: 1600 }, height: { ideal: 1200 } };
const REAR = { facingMode: { ideal: "environment" }, ...SIZE };
const open = (video) => navigator.mediaDevices.getUserMedia({ video });

class Camera extends EventTarget {
	stream = null;
	video = null;
	#isWanted = false;

	/** Whether the browser gives a camera to this page at all. */
	isPossible = Boolean(isSecureContext && navigator.mediaDevices);

	get #track() {
		return this.stream?.getVideoTracks()[0];
	}

	get isOn() {
		return this.#track?.readyState === "live";
	}

	/** Whether it looks at whoever holds it: then the preview is a mirror. */
	get isFront() {
		return this.settings.facingMode === "user" || /front|facetime/i.test(this.#track.label);
	}

	get settings() {
		return this.#track.getSettings();
	}

	/** Turn it on: the one that was chosen, else the rear one. The old track ends before another opens. */
	async start() {
		this.#release();
		this.#isWanted = true;
		const { camera: deviceId } = localStorage;
		const chosen = deviceId && (await open({ deviceId: { exact: deviceId }, ...SIZE }).catch(() => null));
		const stream = chosen || (await open(REAR));  // the chosen one may not be there any more
		this.#release();
		this.stream = stream;
		if (!this.#isWanted) return this.#release();
		localStorage.cameraWasOn = "yes";
		this.#track.onended = () => this.revive();
		this.dispatchEvent(new Event("change"));
	}

	/** Somebody turned it off. */
	stop() {
		localStorage.cameraWasOn = "";
		this.rest();
	}

	/** Off while no screen shows it. */
	rest() {
		this.#isWanted = false;
		this.#release();
		this.dispatchEvent(new Event("change"));
	}

	/** A phone that slept may have taken it away. */
	revive() {
		const isDead = !this.isOn || this.#track.muted;
		if (this.#isWanted && !document.hidden && isDead) this.start().catch(() => this.rest());
	}

	/** Whether there is a picture. */
	get shows() {
		return this.isOn && this.video?.readyState > 1;
	}

	/** What it shows now, as a JPEG file; null where there is nothing yet. */
	async grab(most) {
		if (!this.shows) return null;
		const { video } = this;
		return { at: performance.now(), blob: await jpegOf(video, video.videoWidth, video.videoHeight, most) };
	}

	#release() {
		if (this.#track) this.#track.onended = null;
		this.#track?.stop();
		this.stream = null;
	}
}

export const camera = new Camera();
document.addEventListener("visibilitychange", () => camera.revive());
navigator.mediaDevices?.addEventListener("devicechange", () => camera.revive());
