/**
 * Replaces the function of `@std/async` that the tests use on machines without access to JSR.
 *
 * @module
 */
export { setTimeout as delay } from "node:timers/promises";
