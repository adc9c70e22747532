import { useState } from "react";
import { createRoot } from "react-dom/client";
import { Held } from "./Held.jsx";

// The page's own way to know these; here, its address: ?server=…&session=… and, behind #, the token.
const given = new URLSearchParams(location.search);

function Page() {
  const [ended, setEnded] = useState("");
  return (
    <>
      <h1>A page in React</h1>
      <p role="status">{ended ? `It has ended: ${ended}` : "It has not ended."}</p>
      <Held server={given.get("server")} session={given.get("session")} token={location.hash.slice(1)} onSettled={({ status }) => setEnded(status)} />
    </>
  );
}

createRoot(document.getElementById("page")).render(<Page />);
