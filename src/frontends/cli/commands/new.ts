import { plainCommand } from '../act.ts';

export const fresh = plainCommand('new', 'Put the plan away and start a fresh conversation', 'new');
