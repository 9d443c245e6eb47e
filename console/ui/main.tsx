import { render } from "preact";
import { followRack } from "./data/rack.ts";
import { followInstant } from "./data/shown.ts";
import { followStop } from "./data/stop.ts";
import { followTimeline } from "./data/timeline.ts";
import { signIn } from "./data/session.ts";
import { Frame } from "./frame/frame.tsx";
import { restoreTheme } from "./frame/theme.ts";
import { followAddress } from "./state.ts";

restoreTheme();
const isSignedIn = signIn();
followAddress();
render(<Frame />, document.body);
await isSignedIn;
followRack();
followInstant();
followTimeline();
followStop();
