import * as http from 'node:http';
import { errorText } from '../../base/user-error.ts';
import type { SessionPorts } from '../../engine/ports/session-ports.ts';
import type { SessionPool } from '../sessions/session-pool.ts';

const RETRY_MS = 1000;

export type EngineClientOptions = {
  /** Where the engine takes in calls (Restate's ingress). */
  engine: URL;
  clock: SessionPorts['clock'];
  log: SessionPorts['log'];
};

/** Sends wakes to the engine. */
export type EngineClient = {
  /**
   * The session may have something to do: some worker will run it. Wakes that come while one is under way lead to one
   * more. Repeated until the engine has taken it.
   */
  wake(name: string): void;
  /** Sends nothing more. */
  stop(): void;
};

export function openEngineClient({ engine, clock, log }: EngineClientOptions): EngineClient {
  // A call is answered when the session's run ends, which may be hours later.
  const agent = new http.Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
  /** Sessions with a call in flight, and whether another one has to follow. */
  const calls = new Map<string, { again: boolean }>();
  let isStopped = false;
  let isDown = false;

  async function call(name: string): Promise<void> {
    for (;;) {
      const state = { again: false };
      calls.set(name, state);
      try {
        await post(new URL(`/session/${encodeURIComponent(name)}/wake`, engine), agent);
        if (isDown) log('info', 'the engine answers again');
        isDown = false;
      } catch (error) {
        if (isStopped) return;
        if (!isDown)
          log(
            'warn',
            `the engine at ${engine.origin} does not take wakes: ${errorText(error)}. Messages stay in their inboxes; it is tried again each second`,
          );
        isDown = true;
        state.again = true;
        await new Promise<void>((resolve) => clock.after(RETRY_MS, resolve));
      }
      if (isStopped || !state.again) break;
    }
    calls.delete(name);
  }

  return {
    wake(name) {
      const state = calls.get(name);
      if (state) state.again = true;
      else if (!isStopped) void call(name);
    },
    stop() {
      isStopped = true;
      agent.destroy();
    },
  };
}

function post(url: URL, agent: http.Agent): Promise<void> {
  return new Promise((resolve, reject) => {
    const request = http.request(url, { method: 'POST', agent }, (response) => {
      const { statusCode = 0 } = response;
      response.resume();
      response.on('error', reject);
      response.on('end', () =>
        statusCode < 300 ? resolve() : reject(new Error(`it answered with status ${statusCode}`)),
      );
    });
    request.on('error', reject);
    request.end();
  });
}

/** The sessions as a gateway of a cluster uses them: it passes wakes on, and none is ever open here. */
export function openRemoteSessions(options: EngineClientOptions): SessionPool {
  const client = openEngineClient(options);
  return {
    wake: client.wake,
    openWaiting: () => {},
    waitingNames: () => [],
    drop: () => {},
    // Its worker removes what has expired, while it has the session.
    isAsleep: () => false,
    // Messages stay in their inboxes: workers take them in when there is space.
    onDiskSpace: () => {},
    quarantineReason: () => undefined,
    openNames: () => [],
    checkOpen: () => {},
    counts: () => ({ open: 0, waiting: 0 }),
    listUnserved: () => [],
    stop: async () => client.stop(),
  };
}
