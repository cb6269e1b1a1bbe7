/**
 * A small real-socket client with the manners of deno-redis, for machines that cannot load it: one
 * command at a time, no time-outs, commands sent again after a reconnect, and `-` before the text of
 * errors.
 *
 * @module
 */
import type { DenoRedisConnection } from "../../redis/clients/deno_redis.ts";
import { connectResp, type RespConnection } from "../servers/resp.ts";

/** How often a command is sent again after its connection broke. */
const MAX_RETRIES = 10;

/** Connects. */
export async function connectLike(url: string): Promise<DenoRedisConnection> {
  const listeners: (() => void)[] = [];
  let connection: RespConnection = await connectResp(url);
  let isClosed = false;
  let last: Promise<unknown> = Promise.resolve();

  const reconnect = async () => {
    for (const listener of listeners) listener();
    for (let tries = 0;; tries++) {
      if (isClosed) throw new Deno.errors.BadResource("Bad resource ID");
      try {
        connection = await connectResp(url);
        return;
      } catch (error) {
        if (tries === MAX_RETRIES) throw error;
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
    }
  };

  const exchange = async (command: string, args: string[]): Promise<unknown> => {
    for (let retries = 0;; retries++) {
      if (isClosed) throw new Deno.errors.BadResource("Bad resource ID");
      try {
        return await connection.command(command, ...args);
      } catch (error) {
        if (connection.isOpen && !isClosed) throw new Error(`-${(error as Error).message}`);
        if (isClosed || retries === MAX_RETRIES) throw error;
        await reconnect();
        if (isClosed) connection[Symbol.dispose]();
      }
    }
  };

  return {
    sendCommand(command, args = []) {
      const turn = last.then(() => exchange(command, args));
      last = turn.catch(() => {});
      return turn;
    },
    close() {
      isClosed = true;
      connection[Symbol.dispose]();
    },
    addEventListener: (_event, listener) => void listeners.push(listener),
  };
}
