/**
 * A picture of who waited for locks and who held them, in several processes: what a person attaches to an
 * incident. Each process records what the channels of `node:diagnostics_channel` tell (`CHANNELS` of the main
 * entry), and the recordings become one HTML file.
 *
 * @module
 */
export { drawLocks, type DrawLocksOptions } from "./draw_locks.ts";
export { recordLocks, type RecordLocksOptions } from "./record_locks.ts";
