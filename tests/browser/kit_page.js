// What a page's own script does: reads the data, and shows them as text.
document.getElementById("shown").textContent = JSON.parse(document.getElementById("data").textContent).name;
