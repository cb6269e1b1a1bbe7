/**
 * The servers and connections that this bench borrows from the tests.
 *
 * @module
 */
export { startRedis } from "../../tests/servers/redis.ts";
export { connectResp, type RespConnection } from "../../tests/servers/resp.ts";
