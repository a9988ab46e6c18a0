import { plainCommand } from '../act.ts';

export const cancel = plainCommand('cancel', 'Abort the call in flight and end the plan', 'cancel');
