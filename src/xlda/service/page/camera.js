import { jpegOf } from "./photos.js";

const SIZE = { width: { ideal: 1280 }, height: { ideal: 960 } };
const open = (more) => navigator.mediaDevices.getUserMedia({ video: { ...SIZE, ...more } });

// Only this needs https or localhost.
export const camera = {
	isPossible: Boolean(isSecureContext && navigator.mediaDevices),
	changed() {},

	get track() {
		return this.stream?.getVideoTracks()[0];
	},

	get isOn() {
		return this.track?.readyState === "live";
	},

	get isFront() {
		return this.track.getSettings().facingMode === "user" || /front|facetime/i.test(this.track.label);
	},

	get shows() {
		return this.isOn && this.video.readyState > 1;
	},

	// The one that was chosen, else the rear one. The old track ends before another opens.
	async start() {
		this.rest();
		this.isWanted = true;
		const { camera: exact } = localStorage;
		const chosen = exact && (await open({ deviceId: { exact } }).catch(() => null));
		const stream = chosen || (await open({ facingMode: { ideal: "environment" } }));
		this.track?.stop();
		this.stream = stream;
		if (!this.isWanted) return this.rest();
		localStorage.cameraWasOn = "yes";
		this.track.onended = () => this.revive();
		this.changed();
	},

	rest() {
		this.isWanted = false;
		this.track?.stop();
		this.stream = null;
		this.changed();
	},

	// A phone that slept may have taken it away.
	revive() {
		const isDead = !this.isOn || this.track.muted;
		if (this.isWanted && !document.hidden && isDead) this.start().catch(() => this.rest());
	},

	async grab(most) {
		return this.shows ? { at: performance.now(), blob: await jpegOf(this.video, most) } : null;
	},
};

document.addEventListener("visibilitychange", () => camera.revive());
navigator.mediaDevices?.addEventListener("devicechange", () => camera.revive());
