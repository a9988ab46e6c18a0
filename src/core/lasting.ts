import type { RestStatus } from '../protocol/event.ts';
import { depthOf } from './child-name.ts';

/**
 * Whether the commands that run in the background end with a run that rests like this. They outlast an end that is none for the
 * person, who may go on or use what was started; of those of a child session nobody would hear again.
 */
export const endsJobs = (session: string, status: RestStatus): boolean =>
  status === 'cancelled' || (depthOf(session) > 0 && (status === 'done' || status === 'failed'));
