import { UserError } from '../../base/user-error.ts';

/** No session has this name. */
export class NoSuchSession extends UserError {
  constructor(name: string, known: string[]) {
    super(`No session ${JSON.stringify(name)}. Known: ${known.join(', ') || 'none yet'}.`);
    this.name = 'NoSuchSession';
  }
}

/** It cannot be done while the daemon is as it is: up, down or at work in that session. */
export class DaemonState extends UserError {
  constructor(message: string) {
    super(message);
    this.name = 'DaemonState';
  }
}

/** What was waited for did not come in time. It may still come. */
export class WaitedTooLong extends UserError {
  constructor(message: string) {
    super(message);
    this.name = 'WaitedTooLong';
  }
}

/** None of the calls that wait is meant, or more than one may be. */
export class NoSuchApproval extends UserError {
  constructor(message: string) {
    super(message);
    this.name = 'NoSuchApproval';
  }
}

/** A message with this id was sent before, with other content. */
export class MessageConflict extends UserError {
  constructor(message: string) {
    super(message);
    this.name = 'MessageConflict';
  }
}

/** An edited plan cannot be saved: there is no plan, another one is current, or what came is none. */
export class PlanConflict extends UserError {
  readonly why: 'none' | 'other' | 'unknown' | 'invalid';

  constructor(message: string, why: PlanConflict['why']) {
    super(message);
    this.name = 'PlanConflict';
    this.why = why;
  }
}
