/**
 * The helpers of the tests that this bench shares: servers, and connections of observers.
 *
 * @module
 */
export { startRedis } from "../../testing/servers/redis.ts";
export { connectResp, type RespConnection } from "../../testing/servers/resp.ts";
