/** The right to write one session's event log, held while the session is open. */
export type SessionToken = {
  /** Throws if the token was given back. */
  check(): void;
  /** The session may be opened again. */
  giveBack(): void;
};

/** Hands out the tokens of one process. */
export type SessionTokens = {
  /** Throws `SessionInUse` while another token for this session exists. */
  take(session: string): SessionToken;
};

/** A session was opened a second time while in use: a bug of the daemon, never something a person did. */
export class SessionInUse extends Error {
  constructor(session: string) {
    super(
      `The session ${session} is already open, and only one worker may write its event log. This is a bug in agentd; the session continues where it is open.`,
    );
    this.name = 'SessionInUse';
  }
}

/** One token per open session, so that no event log has two writers in this process. */
export function sessionTokens(): SessionTokens {
  const tokens = new Map<string, SessionToken>();
  return {
    take(session) {
      if (tokens.has(session)) throw new SessionInUse(session);
      const token: SessionToken = {
        check() {
          if (tokens.get(session) !== token)
            throw new Error(`The session ${session} was closed: its event log is not written.`);
        },
        giveBack() {
          if (tokens.get(session) === token) tokens.delete(session);
        },
      };
      tokens.set(session, token);
      return token;
    },
  };
}
