import { plainCommand } from '../act.ts';

export const stopRun = plainCommand('stop-run', 'Abort the call in flight and rest; "continue" goes on', 'stop');
