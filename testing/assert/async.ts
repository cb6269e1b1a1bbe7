/**
 * Stands in for the function of `@std/async` that the tests use, where JSR is out of reach.
 *
 * @module
 */
export { setTimeout as delay } from "node:timers/promises";
