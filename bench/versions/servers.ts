/**
 * The servers and connections that this bench borrows from the tests.
 *
 * @module
 */
export { startRedis } from "../../testing/servers/redis.ts";
export { connectResp, type RespConnection } from "../../testing/servers/resp.ts";
